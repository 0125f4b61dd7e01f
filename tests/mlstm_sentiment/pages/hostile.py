"""Texts that break pages, terminals and encodings where one is careless."""

NASTY = [
    "</script><script>alert(1)</script> \"quoted\" & 'so' <!-- {{data}} {{nothing}} &lt;",
    "שלום (עולם) مرحبا \u202eoverride\u202c isolate\u2066",
    "e\u0301 n\u0303 Z\u0351\u036b\u0343\u036a",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 ½ 日本語",
    "a\ttab\nline\r\nend \x1b[31mred\x07 \x00 \x7f \x85",
    "lone \ud800 surrogate",
]
