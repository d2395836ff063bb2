"""Validates an ID Token repeatedly, or an access token as an API does (ALGORITHM api-RS256), and prints the nanoseconds of one validation:

    peer.py joserfc|authlib|pyjwt FOLDER ALGORITHM SECONDS
"""

import json
import sys
import time

library, folder, algorithm, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
keys = json.load(open(f"{folder}/jwks.json"))
token = open(f"{folder}/{algorithm}.jwt").read()
is_api = algorithm.startswith("api-")
issuer, audience = "https://id.example.com", "https://api.example.com" if is_api else "client"

if library == "joserfc":
    from joserfc import jwt
    from joserfc.jwk import KeySet
    key_set = KeySet.import_key_set(keys)
    rules = jwt.JWTClaimsRegistry(
        iss={"essential": True, "value": issuer}, aud={"essential": True, "value": audience}, exp={"essential": True},
        nonce={"essential": True, "value": "nonce"})

    def work():
        rules.validate(jwt.decode(token, key_set, algorithms=["RS256", "ES256"]).claims)
elif library == "authlib" and is_api:
    from authlib.jose import JsonWebKey
    from authlib.oauth2 import ResourceProtector
    from authlib.oauth2.rfc9068 import JWTBearerTokenValidator
    key_set = JsonWebKey.import_key_set(keys)

    class Validator(JWTBearerTokenValidator):
        def get_jwks(self):
            return key_set

    class Request:
        headers = {"Authorization": f"Bearer {token}"}

    protector = ResourceProtector()
    protector.register_token_validator(Validator(issuer, audience))

    def work():
        protector.validate_request(["orders:read"], Request)
elif library == "authlib":
    from authlib.jose import JsonWebKey, JsonWebToken
    key_set = JsonWebKey.import_key_set(keys)
    decoder = JsonWebToken(["RS256", "ES256"])
    options = {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": audience}}

    def work():
        claims = decoder.decode(token, key_set, claims_options=options)
        claims.validate()
        assert claims["nonce"] == "nonce"
else:
    import jwt
    key_set = {key["kid"]: jwt.PyJWK(key) for key in keys["keys"]}

    def work():
        key = key_set[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, key, algorithms=["RS256", "ES256"], issuer=issuer, audience=audience)
        assert is_api or claims["nonce"] == "nonce"

for _ in range(200):
    work()
start, count = time.perf_counter_ns(), 0
while time.perf_counter_ns() - start < seconds * 1e9:
    for _ in range(50):
        work()
    count += 50
print((time.perf_counter_ns() - start) / count)
