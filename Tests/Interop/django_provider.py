#!/usr/bin/env python3
"""Serves django-oauth-toolkit or the provider of django-allauth (PyPI) on a port of 127.0.0.1, with the users alice and bob and their clients:

    django_provider.py toolkit|allauth PORT DIRECTORY DESCRIPTOR

DESCRIPTOR is the number of the socket that listens at the port.

Refresh tokens are used once, and a second use ends the session. `POST /forget` deletes all refresh tokens.
"""
import socket, socketserver, subprocess, sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

KIND, PORT, DIRECTORY = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ORIGIN = f"http://127.0.0.1:{PORT}"
SCOPES = ["openid", "profile", "email", "offline_access", "read"]
SECRET = "a secret: of both%kinds"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"

KEY = f"{DIRECTORY}/key.pem"
subprocess.run(["openssl", "genrsa", "-out", KEY, "2048"], check=True, capture_output=True)
with open(KEY) as file:
    key = file.read()

TOOLKIT = {
    "OIDC_ENABLED": True, "OIDC_RSA_PRIVATE_KEY": key, "OIDC_ISS_ENDPOINT": f"{ORIGIN}/o", "PKCE_REQUIRED": True,
    "SCOPES": {name: name for name in SCOPES}, "ALLOWED_SCHEMES": ["https", "http"], "ALLOW_LOCALHOST_LOOPBACK": True,
    "ROTATE_REFRESH_TOKEN": True, "REFRESH_TOKEN_REUSE_PROTECTION": True, "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
    "DCR_ENABLED": True, "DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",),
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True, "OAUTH_DEVICE_VERIFICATION_URI": f"{ORIGIN}/o/device/", "DEVICE_FLOW_INTERVAL": 1,
}
SETTINGS = {
    "toolkit": {
        "INSTALLED_APPS": ["oauth2_provider"], "MIDDLEWARE": [], "OAUTH2_PROVIDER": TOOLKIT, "LOGIN_URL": "/accounts/login/"},
    "allauth": {
        "INSTALLED_APPS": ["allauth", "allauth.account", "allauth.idp.oidc"], "MIDDLEWARE": ["allauth.account.middleware.AccountMiddleware"],
        "ACCOUNT_EMAIL_VERIFICATION": "none", "LOGIN_REDIRECT_URL": "/accounts/email/", "IDP_OIDC_PRIVATE_KEY": key,
        "IDP_OIDC_ROTATE_REFRESH_TOKEN": True, "IDP_OIDC_DCR_ENABLED": True, "IDP_OIDC_DCR_REQUIRES_INITIAL_ACCESS_TOKEN": False,
        "IDP_OIDC_DEVICE_CODE_INTERVAL": 1, "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        "AUTHENTICATION_BACKENDS": ["django.contrib.auth.backends.ModelBackend", "allauth.account.auth_backends.AuthenticationBackend"]},
}[KIND]
CONTRIB = ["auth", "contenttypes", "sessions", "messages"]

from django.conf import settings

settings.configure(**SETTINGS | {
    "SECRET_KEY": "x" * 50, "ALLOWED_HOSTS": ["127.0.0.1"], "ROOT_URLCONF": __name__, "USE_TZ": True, "SITE_ID": 1,
    "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{DIRECTORY}/database",
                              "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"}}},
    "INSTALLED_APPS": [f"django.contrib.{name}" for name in CONTRIB] + SETTINGS["INSTALLED_APPS"],
    "MIDDLEWARE": [f"django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
                   "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware"]
                  + SETTINGS["MIDDLEWARE"],
    "TEMPLATES": [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}],
})

import django

django.setup()
from django.contrib.auth import views
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.template import engines
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

call_command("migrate", verbosity=0)
for name in ["alice", "bob"]:
    User.objects.create_user(name, f"{name}@example.com", "wonderland", first_name=name.capitalize(), last_name="Example")


class Login(views.LoginView):
    """The toolkit has no page for signing in."""

    def render_to_response(self, context, **_):
        page = "<form method=post>{% csrf_token %}{{ form.as_p }}<input type=hidden name=next value='{{ next }}'><button>Log in</button></form>"
        return HttpResponse(engines["django"].from_string(page).render(context, self.request))


if KIND == "toolkit":
    from oauth2_provider.models import Application, RefreshToken
    from oauth2_provider.urls import metadata_urlpatterns

    def client(name, secret="", algorithm="RS256", grant="authorization-code"):
        Application.objects.create(
            client_id=name, name=name, client_secret=secret, algorithm=algorithm, authorization_grant_type=grant, hash_client_secret=False,
            client_type="confidential" if secret else "public", redirect_uris="http://127.0.0.1/callback",
            post_logout_redirect_uris=f"{ORIGIN}/signed-out", user=User.objects.get(username="alice"))

    client("symmetric", "hs-secret-0123456789-0123456789-012345", algorithm="HS256")
    client("confidential", SECRET)
    client("device", grant=DEVICE)
    client("machine", "machine-secret", grant="client-credentials")
    urlpatterns = [path("accounts/login/", Login.as_view()), path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
                   path("", include((metadata_urlpatterns, "oauth2_metadata")))]
    tokens = RefreshToken.objects
else:
    from allauth.idp.oidc.models import Client, Token

    def client(name, secret="", grants=("authorization_code", "refresh_token")):
        created = Client(id=name, name=name, type="confidential" if secret else "public", scopes="\n".join(SCOPES),
                         grant_types="\n".join(grants), redirect_uris="http://127.0.0.1/callback")
        created.set_secret(secret)
        created.save()

    client("confidential", "plain-secret")
    client("device", grants=(DEVICE, "refresh_token"))
    client("machine", "machine-secret", grants=("client_credentials",))
    urlpatterns = [path("accounts/", include("allauth.urls")), path("", include("allauth.idp.urls"))]
    tokens = Token.objects.filter(type=Token.Type.REFRESH_TOKEN)
client("public")


@csrf_exempt
def forget(_):
    tokens.all().delete()
    return HttpResponse()


urlpatterns.append(path("forget", forget))


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


    def server_bind(self):
        self.socket = socket.socket(fileno=int(sys.argv[4]))
        self.server_name, self.server_port = "127.0.0.1", PORT
        self.setup_environ()

    def server_activate(self):
        pass


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


make_server("127.0.0.1", PORT, get_wsgi_application(), server_class=Server, handler_class=Quiet).serve_forever()
