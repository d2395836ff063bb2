import AsyncHTTPClient

print(HTTPClient.shared)
