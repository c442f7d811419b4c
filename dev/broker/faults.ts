// What a test may make go wrong. Nothing here happens by itself.

export interface ObservedCommit {
  group: string
  topic: string
  partition: number
  offset: bigint
  memberId: string
  generation: number
  /** 0, or the code that the commit was refused with. */
  errorCode: number
}

export class Faults {
  readonly #planned: { api: number; errorCode: number; times: number }[] = []
  /** Sees every offset commit, taken or refused. */
  onCommit: (commit: ObservedCommit) => void = () => undefined

  /** The next `times` requests of the API with this key are answered with `errorCode`, and not carried out. */
  fail(api: number, errorCode: number, times = 1): void {
    this.#planned.push({ api, errorCode, times })
  }

  /** The code to answer with now; 0: none. Uses it up. */
  next(api: number): number {
    const due = this.#planned.find((planned) => planned.api === api && planned.times > 0)
    if (due === undefined) return 0
    due.times--
    return due.errorCode
  }
}
