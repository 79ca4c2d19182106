"""A document shows every text as it is, in whatever place, and asks nobody for anything."""

import re
from pathlib import Path

import jinja2
import pytest
from map_parts import EVIL, Reader

from pu_geo.store import documents
from pu_geo.store.documents import Picture, Section, render

TEMPLATES = sorted(Path(documents.__file__).parent.glob("*.html"))
BREAKS_OUT = (
    f"x' onload=alert(1) \" onload=alert(2) </svg></style></title></table><style>@import 'http://e.org'</style>{EVIL}"
)


def page(words: str) -> Reader:
    """Return a document with a text in every place that it has: of the page, of tables, of drawings, of attributes."""
    line = [(0.0, 0.0), (1.0, 1.0)]
    picture = Picture(words, words, [(words, words, words, [line], [line])], (0.5, words))
    sections = [Section(words, [words], [(words, words)], picture=picture), Section(words, table=[[words]], header=[words])]
    return Reader(render("base.html", title=words, lead=words, sections=sections, footer=words))


@pytest.mark.parametrize("words", [EVIL, BREAKS_OUT, "{{ 7 * 7 }}{% include 'base.html' %}", "--></script>]]>\u2028`${1}`"])
def test_no_text_becomes_a_tag_an_attribute_or_code(words: str) -> None:
    harmless, found = page("harmless"), page(words)
    assert [(tag, list(attributes)) for tag, attributes in found.tags] == [(tag, list(a)) for tag, a in harmless.tags]
    assert found.seen.count(documents.plain(words, 40)[:30]) == harmless.seen.count("harmless") > 12
    assert not {"\u202e", "\ud800", "\x07"} & set(found.seen)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_write_values_only_where_escaping_makes_them_harmless(path: Path) -> None:
    """Not in styles, not in tags outside of quotes, never unescaped; and with no script or address of their own."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe|autoescape|<script|<link|<iframe|\b(?:href|on\w+)\s*=|url\(|@import|https?:", text)
    assert not any("{{" in style for style in re.findall(r"<style>.*?</style>", text, re.DOTALL))
    assert not re.search(r"=\s*\{\{", text)


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'footer' is undefined"):
        render("base.html", title="t", lead="l", sections=[])
