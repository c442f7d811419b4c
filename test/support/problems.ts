// What tests expect of the API's errors.
import assert from 'node:assert/strict'
import type { ErrorCode } from '../../src/base/errors.ts'
import type { Answer } from './control.ts'

interface Problem {
  type: string
  status: number
  code: string
  detail: string
  errors: { path: string; message: string }[]
  request_id: string
}

/** Asserts that the answer is the problem of `code`, and gives it. */
export function assertProblem(answer: Answer, status: number, code: ErrorCode): Problem {
  assert.equal(answer.status, status, answer.text)
  assert.match(String(answer.headers['content-type']), /^application\/problem\+json/)
  assert.equal(answer.headers['cache-control'], 'no-store')
  const problem = answer.body as Problem
  assert.equal(problem.code, code)
  assert.equal(problem.status, status)
  assert.equal(problem.type, `urn:streaming-hub:problem:${code}`)
  assert.equal(problem.request_id, answer.headers['x-request-id'])
  return problem
}

/** Asserts a 400 whose faults are at exactly these paths, in any order. */
export function assertFaults(answer: Answer, paths: readonly string[]): void {
  const { errors } = assertProblem(answer, 400, 'invalid_request')
  assert.deepEqual(errors.map(({ path }) => path).sort(), [...paths].sort(), answer.text)
}
