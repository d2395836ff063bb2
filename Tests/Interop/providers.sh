#!/usr/bin/env bash
# Signs in with the command-line tool at django-oauth-toolkit and at the provider of django-allauth (PyPI):
#   Tests/Interop/providers.sh PATH/TO/authflow
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../../.build/interop-django
packages=("django-oauth-toolkit==3.4.1" "django-allauth[idp-oidc]==65.22.1" "requests==2.32.5")
if ! "$python/bin/python" -c "import oauth2_provider, allauth.idp.oidc, requests" 2>/dev/null; then
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
fi
for kind in toolkit allauth; do "$python/bin/python" "$here/providers.py" "$(realpath "$1")" "$kind"; done
