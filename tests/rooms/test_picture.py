import sys
from xml.etree import ElementTree

import nbformat
import pytest

from gpulab.report.picture import LAB_MIME, Picture
from gpulab.report.table import Table

TWIN = Table("A table", ("event",), (("#1",),))
SPEC = {
    "data": {"values": [{"a": 1}]},
    "mark": "bar",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}


@pytest.fixture
def picture():
    return Picture(SPEC, title="Use & <waste>", description="One bar.", table=TWIN)


def test_a_notebook_stores_the_specification_an_svg_with_words_and_a_line_of_text(picture):
    data, metadata = picture._repr_mimebundle_()

    assert sorted(data) == [LAB_MIME, "image/svg+xml", "text/plain"]
    assert data[LAB_MIME]["$schema"].endswith("vega-lite/v5.json")
    assert data[LAB_MIME]["description"] == "Use & <waste>. One bar."
    assert data["text/plain"] == "Use & <waste>. One bar. The same as a table: .table()"
    assert metadata == {"image/svg+xml": {"alt": "One bar."}}


def test_the_stored_output_is_valid_for_nbformat(picture):
    data, metadata = picture._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[output], id="a")])

    nbformat.validate(notebook)


def test_the_svg_has_a_title_and_a_description_for_screen_readers(picture):
    root = ElementTree.fromstring(picture.svg())

    assert (root.get("role"), root.get("aria-label")) == ("img", "Use & <waste>")
    assert [root[0].text, root[1].text] == ["Use & <waste>", "One bar."]


def test_only_the_asked_types_are_given(picture):
    assert list(picture._repr_mimebundle_(include={"text/plain"})[0]) == ["text/plain"]
    assert LAB_MIME not in picture._repr_mimebundle_(exclude={LAB_MIME})[0]


def test_a_picture_is_saved_as_svg_png_or_a_page_that_fetches_nothing(picture, tmp_path):
    svg, png, page = (picture.save(tmp_path / f"use.{ending}") for ending in ("svg", "png", "HTML"))

    assert svg.read_text(encoding="utf-8") == picture.svg()
    assert png.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "Use &amp; &lt;waste&gt;" in text
    assert "<table" in text
    with pytest.raises(ValueError, match=r"use.pdf ends in '.pdf'"):
        picture.save(tmp_path / "use.pdf")


def test_without_vl_convert_the_notebook_still_draws_and_saving_says_what_to_install(
    picture, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "vl_convert", None)

    data, metadata = picture._repr_mimebundle_()

    assert (sorted(data), metadata) == ([LAB_MIME, "text/plain"], {})
    with pytest.raises(ImportError, match=r"pip install \"gpulab\[lab\]\""):
        picture.save(tmp_path / "use.svg")


def test_where_nobody_looks_a_picture_is_its_words_until_somebody_asks_for_it(picture, monkeypatch):
    monkeypatch.setenv("GPULAB_STILLS", "0")

    assert picture._repr_mimebundle_() == ({"text/plain": repr(picture)}, {})
    assert picture.svg().startswith("<svg")


def test_the_table_twin_comes_with_the_picture(picture):
    assert picture.table() is TWIN
