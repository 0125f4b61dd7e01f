"""OpenAI's numbered files: the states that their mathematics gives, and damaged ones refused."""

import io

import numpy as np
import pytest

from mlstm_sentiment.errors import InputError
from model.inference.features import features_in_order
from tests.transfer.published.layouts import draw, openai_arrays, write_openai
from tests.transfer.published.states import TEXT, assert_same, read
from transfer.published.imports import import_openai


@pytest.fixture(scope="module")
def language():
    return draw()


@pytest.fixture
def folder(language, tmp_path):
    return write_openai(tmp_path / "weights", openai_arrays(language))


@pytest.mark.parametrize("blocks", [1, 4, 7])
@pytest.mark.parametrize(("E", "H"), [(6, 10), (8, 8), (5, 3)])
def test_states_are_those_of_the_files(tmp_path, E, H, blocks):
    language = draw(E, H)
    arrays = openai_arrays(language, blocks)
    assert len(arrays) == 11 + blocks
    imported = import_openai(write_openai(tmp_path / "weights", arrays))
    assert_same(imported.model, language)
    assert imported.model.config.weight_norm
    features = features_in_order(imported.model, [TEXT])
    np.testing.assert_allclose(features[0], language.read(TEXT)[1][-1], atol=2e-5)


def test_other_files_do_not_matter(folder, language):
    (folder / "README.md").write_text("weights")
    assert_same(import_openai(folder).model, language)


def test_the_last_files_may_be_missing_too(folder):
    for number in range(14, 0, -1):
        (folder / f"{number}.npy").unlink()
        with pytest.raises(InputError, match=r"get (missing files|them) again"):
            import_openai(folder)


@pytest.mark.parametrize("dtype", ["<f2", "<f8", ">f4"])
def test_other_floating_point_numbers_and_orders_are_read(language, tmp_path, dtype):
    arrays = [np.asfortranarray(array.astype(dtype)) for array in openai_arrays(language)]
    cell, _ = read(import_openai(write_openai(tmp_path / "weights", arrays)).model)
    np.testing.assert_allclose(
        cell, language.read(TEXT)[1][-1], atol=0.05 if "2" in dtype else 2e-5
    )


def test_a_gate_order_that_is_asked_for_is_used(folder, language):
    cell, _ = read(import_openai(folder, "ifuo").model)
    assert not np.allclose(cell, language.read(TEXT)[1][-1], atol=0.1)


@pytest.mark.parametrize("missing", [*((number,) for number in range(14)), (10, 11), (0, 1, 2, 3)])
def test_missing_files_are_named_first_and_alone(folder, missing):
    for number in missing:
        (folder / f"{number}.npy").unlink()
    (folder / "14.npy").write_bytes(b"damaged")
    listed = ", ".join(f"{number}.npy" for number in missing)
    with pytest.raises(InputError) as refused:
        import_openai(folder)
    message = f"{folder}: of 0.npy to 14.npy not there: {listed}; get them again"
    assert str(refused.value) == message


@pytest.mark.parametrize("number", range(15))
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[..., None], lambda a: a[..., 1:]])
def test_a_wrong_shape_is_refused(folder, number, change):
    path = folder / f"{number}.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(InputError, match=r"\d\.npy"):
        import_openai(folder)


@pytest.mark.parametrize("name", ["15.npy", "extra.npy", "01.npy", f"{10**40}.npy", "9999.npy"])
def test_an_extra_file_is_refused(folder, name):
    np.save(folder / name, np.zeros(3, dtype=np.float32))
    with pytest.raises(InputError, match=r"after wh|move it away"):
        import_openai(folder)


def saved(array):
    """The bytes of a file of an array; one of objects would run code where it is unpickled."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npy(header):
    """A file with a header of any text."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


DAMAGED = "{'descr': ('<f4',), 'fortran_order': False, 'shape': (10, 10)}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(npy(DAMAGED), r"damaged or cut short \(tuple index", id="part of a dtype"),
        pytest.param(npy("-" * 9000), "damaged or cut short", id="too deep for the parser"),
        pytest.param(npy("-" * 3500 + "1"), "damaged or cut short", id="too deep for the stack"),
        pytest.param(npy("(" * 3000), "damaged or cut short", id="never closed"),
        (b"", "damaged or cut short"),
        (b"\x93NUMPY\x01\x00", "damaged or cut short"),
        (b"not an array at all", "damaged or cut short"),
        (saved(np.zeros((10, 10), np.float32))[:-8], "cut short"),
        (saved(np.array([{"a": 1}], dtype=object)), "not a plain array"),
        (saved(np.zeros((10, 10), np.int64)), "holds int64"),
    ],
)
def test_damaged_files_are_refused(folder, content, message):
    (folder / "7.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"7\.npy.*{message}"):
        import_openai(folder)


def test_numbers_that_are_not_finite_and_folders_without_weights_are_refused(folder, tmp_path):
    np.save(folder / "8.npy", np.full(40, np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="NaN"):
        import_openai(folder)
    with pytest.raises(InputError, match="no such folder"):
        import_openai(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no \.npy files"):
        import_openai(tmp_path)
