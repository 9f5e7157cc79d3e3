"""The one strict reader of text from outside. Everything a person, a file or another program wrote enters here.

The rules, the same for every format:

- UTF-8 only; a byte-order mark is dropped, any other encoding is refused by name or by line and byte.
- A key that stands twice is an error. No value changes its type or its digits; NaN, the infinities and numbers too
  large for a float are refused; integers are exact.
- Depth, size and line length have limits (fairtrial/spec/text.py), checked before memory or the stack is used.
- Lines end at LF or CRLF and at nothing else.
- Every error is an InputError that names the file, the line and where there is one the column, and never shows a value.

The reasons are in docs/decisions/0003-strict-input.md.
"""

from __future__ import annotations

from fairtrial.spec.strict_csv import CsvRows, parse_csv
from fairtrial.spec.strict_json import JsonLine, JsonLines, iter_json_lines, iter_json_list, parse_json
from fairtrial.spec.strict_toml import parse_toml
from fairtrial.spec.strict_yaml import parse_yaml
from fairtrial.spec.text import decode_text

__all__ = [
    "CsvRows",
    "JsonLine",
    "JsonLines",
    "decode_text",
    "iter_json_lines",
    "iter_json_list",
    "parse_csv",
    "parse_json",
    "parse_toml",
    "parse_yaml",
]
