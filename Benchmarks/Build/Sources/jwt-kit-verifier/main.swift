import JWTKit

print(JWTKeyCollection())
