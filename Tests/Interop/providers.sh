#!/usr/bin/env bash
# Signs in with the command-line tool at django-oauth-toolkit and at the provider of django-allauth (PyPI):
#   Tests/Interop/providers.sh PATH/TO/authflow
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../../.ci/python-environment" interop-django \
  django-oauth-toolkit==3.4.1 "django-allauth[idp-oidc]==65.22.1" requests==2.32.5)
for kind in toolkit allauth; do "$python/bin/python" "$here/providers.py" "$(realpath "$1")" "$kind"; done
