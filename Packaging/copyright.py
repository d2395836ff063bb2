#!/usr/bin/env python3
"""Prints the licences of the tool and of the libraries linked into it, from their licence files:

    Packaging/copyright.py
"""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
APACHE = "The Apache License, version 2.0; on Debian it is in /usr/share/common-licenses/Apache-2.0."


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip("\n")


def terms(path):
    """The text of a licence. The Apache License is only referenced, because every Debian system contains it; exceptions to it are quoted."""
    whole = text(path)
    if "Apache License" not in whole or "END OF TERMS AND CONDITIONS" not in whole:
        return whole
    exception = re.search(r"^#* *Runtime Library Exception.*", whole, re.S | re.M)
    return APACHE + ("\n\n" + exception.group() if exception else "")


def files(folder, *names):
    return sorted(path for name in names for path in glob.glob(f"{folder}/{name}*") if os.path.isfile(path))


def section(title, paragraphs):
    print("\n".join([title, "-" * len(title), "", "\n\n".join(paragraphs), ""]))


own = files(HERE, "LICEN", "COPYING", "NOTICE")
section(
    "AuthFlow",
    [terms(path) for path in own]
    or [
        "The repository contains no licence under which AuthFlow may be used, copied, modified or\n"
        "redistributed. Until it contains one, this requires the permission of its authors, who are\n"
        "named in its history."
    ],
)
built = [folder for name in (".build-release", ".build") if (folder := f"{HERE}/{name}/checkouts") and os.path.isdir(folder)]
if not built:
    sys.exit("copyright.py: the sources of the libraries, which contain their licences, are missing; run: make release")
for package in sorted(os.listdir(built[0])):
    found = files(f"{built[0]}/{package}", "LICEN", "COPYING")
    if not found:
        sys.exit(f"copyright.py: {package} has no licence file")
    notices = [text(path) for path in files(f"{built[0]}/{package}", "NOTICE")]
    section(package, [terms(path) for path in found] + notices)
section(
    "Swift's libraries",
    [
        "Copyright Apple Inc. and the Swift project authors. " + APACHE.replace("; on", ",\nwith the Runtime Library Exception; on"),
        "Foundation includes the International Components for Unicode: copyright Unicode, Inc., under\n"
        "the Unicode License, https://www.unicode.org/license.txt.",
    ],
)
