import { test } from 'node:test'
import assert from 'node:assert/strict'
import { echoes, newChallenge, verificationBody } from '../../../src/sinks/webhook/verification.ts'

const challenge = newChallenge()

test('a challenge is new each time and cannot be guessed', () => {
  assert.match(challenge, /^[A-Za-z0-9_-]{32}$/)
  assert.notEqual(newChallenge(), challenge)
})

test('the body is the one of the contract', () => {
  assert.equal(
    verificationBody('abc', '019e').toString(),
    '{"type":"hub.verification","challenge":"abc","subscription_id":"019e"}',
  )
})

test('the challenge counts as plain text and as JSON, white space around it aside', () => {
  for (const answer of [
    challenge,
    `${challenge}\r\n`,
    JSON.stringify({ challenge }),
    `\n{ "ok": true, "challenge" : "${challenge}" }\n`,
  ]) {
    assert.ok(echoes(Buffer.from(answer), challenge), answer)
  }
})

test('nothing else does', () => {
  for (const answer of [
    '',
    'ok',
    `${challenge}x`,
    challenge.slice(1),
    challenge.toLowerCase() === challenge ? challenge.toUpperCase() : challenge.toLowerCase(),
    JSON.stringify(challenge),
    JSON.stringify({ challenge: [challenge] }),
    JSON.stringify({ challenge: null }),
    JSON.stringify([{ challenge }]),
    verificationBody(`${challenge}x`, '').toString(),
    'null',
    '{"challenge":',
  ]) {
    assert.ok(!echoes(Buffer.from(answer), challenge), answer)
  }
})
