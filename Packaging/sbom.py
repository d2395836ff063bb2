#!/usr/bin/env python3
"""Prints the bill of materials of the tool in CycloneDX 1.5: the packages of Package.resolved, and the system libraries that it is linked with or
loads.

    Packaging/sbom.py PATH/TO/authflow VERSION
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
tool, version = sys.argv[1:]
commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)


def package(pin):
    where = re.sub(r"^https?://|\.git$", "", pin["location"])
    name, found = pin["identity"], pin["state"]["version"]
    return {"type": "library", "bom-ref": f"pkg:swift/{where}@{found}", "name": name, "version": found, "purl": f"pkg:swift/{where}@{found}"}


def library(name, scope):
    return {"type": "library", "bom-ref": f"lib:{name}", "name": name, "scope": scope}


needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "--dynamic", "--wide", tool], capture_output=True, text=True, check=True).stdout)
# Libraries that are loaded on first use. Their names are string literals in the C modules.
loaded = sorted({name for path in ROOT.glob("Sources/C/**/*.[ch]") for name in re.findall(r'"(lib[\w.+-]+\.so[\w.]*)"', path.read_text())})
pins = json.loads((ROOT / "Package.resolved").read_text())["pins"]
components = [package(pin) for pin in pins] + [library(name, "required") for name in needed]
components += [library(name, "optional") for name in loaded if name not in needed]
print(json.dumps({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'authflow:{version}:{commit}')}",
    "metadata": {
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "component": {"type": "application", "bom-ref": f"authflow@{version}", "name": "authflow", "version": version,
                      "properties": [{"name": "commit", "value": commit}]},
    },
    "components": sorted(components, key=lambda each: each["bom-ref"]),
}, indent=2))
