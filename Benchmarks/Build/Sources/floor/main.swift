import Crypto
import CryptoExtras
import FlyingSocks
import HTTPTypes

print(SHA256.self, _RSA.self, HTTPRequest.self, Socket.self)
