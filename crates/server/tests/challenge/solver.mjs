// Solves challenges by the challenge page's own solver, each with and without `crypto.subtle`.
//
//   node solver.mjs PACKAGES FILE    challenges of another library, as a JSON array: prints payloads for it to verify
//   node solver.mjs PACKAGES         challenges of npm's altcha, which verifies them, too; prints how many
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const source = readFileSync(new URL('../../src/protocol/site_gate/challenge_page/solver.js', import.meta.url), 'utf8');
const solve = new Function(source + ';return solve')();
let rests = 0;
const rest = async () => { rests++; };
const payloads = async challenge => {
  const made = [];
  for (const subtle of [crypto.subtle, undefined]) made.push({challenge, solution: await solve(challenge.parameters, subtle, rest)});
  return made;
};

const [packages, given] = process.argv.slice(2);
if (given) {
  const made = [];
  for (const challenge of JSON.parse(readFileSync(given))) made.push(...await payloads(challenge));
  console.log(JSON.stringify(made));
} else {
  const {createChallenge, verifySolution, pbkdf2, sha} = await import(pathToFileURL(join(packages, 'node_modules/altcha/dist/lib/index.js')));
  let verified = 0;
  for (const [algorithm, {deriveKey}] of [['PBKDF2/SHA-256', pbkdf2], ['SHA-256', sha]])
    for (const cost of [1, 2, 40, 300])
      for (const keyPrefix of ['0', 'f', 'a1', ...cost == 2 ? ['0c3'] : []])
        for (const keyLength of algorithm == 'SHA-256' ? [9, 32] : [16, 32]) {
          const challenge = await createChallenge({algorithm, cost, keyLength, keyPrefix, deriveKey, hmacSignatureSecret: 'secret', expiresAt: Math.floor(Date.now() / 1000) + 3600, data: {host: 'é'}});
          const counters = new Set();
          for (const {solution} of await payloads(challenge)) {
            const result = await verifySolution({challenge, solution, deriveKey, hmacSignatureSecret: 'secret'});
            assert.equal(result.verified, true, JSON.stringify({challenge, solution, result}));
            counters.add(solution.counter);
            verified++;
          }
          // Both find the first.
          assert.equal(counters.size, 1);
        }
  await assert.rejects(solve({algorithm: 'SCRYPT', keyPrefix: '0', salt: '00', nonce: '00', cost: 1}, crypto.subtle, rest));
  assert(rests > 0);
  console.log(`verified ${verified}`);
}
