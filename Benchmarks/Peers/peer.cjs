// Repeatedly validates an ID Token with jose, and prints the nanoseconds per validation:
//
//     node peer.cjs FOLDER ALGORITHM SECONDS
const fs = require("fs");
const { createLocalJWKSet, jwtVerify } = require("/usr/share/nodejs/jose/dist/node/cjs/index.js");
const [folder, algorithm, seconds] = process.argv.slice(2);
const keys = createLocalJWKSet(JSON.parse(fs.readFileSync(`${folder}/jwks.json`, "utf8")));
const token = fs.readFileSync(`${folder}/${algorithm}.jwt`, "utf8");
async function work() {
  const { payload } = await jwtVerify(token, keys, { issuer: "https://id.example.com", audience: "client", algorithms: ["RS256", "ES256"] });
  if (payload.nonce !== "nonce") throw new Error("nonce");
}
(async () => {
  for (let i = 0; i < 200; i++) await work();
  const start = process.hrtime.bigint();
  let count = 0;
  while (Number(process.hrtime.bigint() - start) < seconds * 1e9) {
    for (let i = 0; i < 50; i++) await work();
    count += 50;
  }
  console.log(Number(process.hrtime.bigint() - start) / count);
})();
