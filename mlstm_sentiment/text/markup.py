"""HTML tags in texts, as shops export them: recognised, and removed."""

import re

_BLOCKS = (
    "address|article|blockquote|body|br|center|div|dd|dl|dt|footer|form|h[1-6]|head|header|hr|html|"
    "img|li|main|nav|ol|p|pre|section|table|tbody|td|tfoot|th|thead|tr|ul"
)
_INLINE = (
    "a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strike|strong|sub|sup|tt|u"
)
_OPEN, _CLOSE = "(?:<|&lt;)", "(?:>|&gt;)"
_ATTRIBUTE = r"""\s+[a-z][a-z-]*\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>&]+)"""
_TAG = rf"{_OPEN}/?(?:%s)(?:{_ATTRIBUTE}){{0,20}}\s*/?{_CLOSE}"
# A lone <b>, <i> or <s> may be anything, such as a placeholder; these are markup.
MARKED_UP = re.compile(
    rf"{_OPEN}(?:(?:br|hr|p)\s*/?{_CLOSE}|/(?:{_BLOCKS}|{_INLINE})\s*{_CLOSE}"
    rf"|(?:{_BLOCKS}|{_INLINE}){_ATTRIBUTE}(?=[\s/>&]))",
    re.IGNORECASE,
)
BLOCK_TAG = re.compile(_TAG % _BLOCKS, re.IGNORECASE)
INLINE_TAG = re.compile(_TAG % _INLINE, re.IGNORECASE)
_SPACES = re.compile(r"\s{2,}")


def without_tags(text: str) -> str:
    """Return a text without its HTML tags; unchanged unless it is clearly marked up.

    Only tags that HTML has are removed: `a < b` and `<unknown>` stay. Where a tag begins a line or
    a block, one space remains.

    >>> without_tags("I loved it.<br /><br />It <b>works</b>.")
    'I loved it. It works.'
    """
    if ("<" not in text and "&lt;" not in text) or not MARKED_UP.search(text):
        return text
    return _SPACES.sub(" ", BLOCK_TAG.sub(" ", INLINE_TAG.sub("", text))).strip()
