/**
 * May a backend be given a request, by what became of those it was given before?
 *
 * One that could not be dialled is avoided for a moment. One that failed several times in a row is ejected: it gets
 * nothing for a while, then one request at a time until one succeeds; every failure of those doubles the while. What is
 * avoided or ejected is still used when there is nobody else: better a try than a refusal.
 *
 * All times are of a clock that never steps back.
 */

const avoidMs = 5_000;
/** This many failures in a row, no longer apart than the window, eject. */
const maxFailures = 3;
const windowMs = 30_000;
const firstEjectionMs = 5_000;
const longestEjectionMs = 300_000;
/** Well for this long, an ejection is the first again. */
const forgetMs = 300_000;

export class Health {
  /** Of failures in a row. */
  #failures = 0;
  #lastFailureMs = 0;
  #avoidUntilMs = 0;
  /** How many times in a row it was ejected; 0 while it is well. */
  #ejections = 0;
  #ejectedUntilMs = 0;
  #isEjected = false;
  #wellSinceMs = 0;
  #isProbed = false;

  /** In a row, up to now. */
  get failures(): number {
    return this.#failures;
  }

  get isEjected(): boolean {
    return this.#isEjected;
  }

  isUsable(nowMs: number): boolean {
    if (this.#isEjected) return this.#ejectedUntilMs <= nowMs && !this.#isProbed;
    return this.#avoidUntilMs <= nowMs;
  }

  /** Called when it was chosen: whether this request finds out if it is well again. */
  begin(nowMs: number): boolean {
    if (!this.#isEjected || this.#isProbed || this.#ejectedUntilMs > nowMs) return false;
    this.#isProbed = true;
    return true;
  }

  /** A probe ended, whatever became of it. */
  endProbe(): void {
    this.#isProbed = false;
  }

  answered(nowMs: number, isProbe: boolean): void {
    this.#failures = 0;
    // A request from before the ejection says nothing about now.
    if (!this.#isEjected) this.#avoidUntilMs = 0;
    else if (isProbe) this.readmit(nowMs);
  }

  /** Whether it is ejected by this, which it can only be if others are left to take its share. */
  failed(nowMs: number, how: { isProbe: boolean; wasDial: boolean; mayEject: boolean }): boolean {
    if (this.#isEjected) {
      if (how.isProbe) this.#eject(nowMs);
      return how.isProbe;
    }
    if (how.wasDial) this.#avoidUntilMs = nowMs + avoidMs;
    if (nowMs - this.#lastFailureMs > windowMs) this.#failures = 0;
    this.#lastFailureMs = nowMs;
    this.#failures += 1;
    if (this.#failures < maxFailures || !how.mayEject) return false;
    if (nowMs - this.#wellSinceMs > forgetMs) this.#ejections = 0;
    this.#eject(nowMs);
    return true;
  }

  readmit(nowMs: number): void {
    this.#isEjected = false;
    this.#failures = 0;
    this.#avoidUntilMs = 0;
    this.#wellSinceMs = nowMs;
  }

  #eject(nowMs: number): void {
    this.#isEjected = true;
    this.#ejectedUntilMs = nowMs + Math.min(longestEjectionMs, firstEjectionMs * 2 ** this.#ejections);
    this.#ejections += 1;
  }
}

/** Never more than half of a service's backends are ejected at the same time. */
export function mayEjectOneMore(backends: readonly { readonly health: Health }[]): boolean {
  let ejected = 0;
  for (const { health } of backends) if (health.isEjected) ejected += 1;
  return (ejected + 1) * 2 <= backends.length;
}

/** After others have left: those ejected that would be more than half are taken back, to be judged anew. */
export function readmitBeyondHalf(backends: readonly { readonly health: Health }[], nowMs: number): void {
  const ejected = backends.filter(({ health }) => health.isEjected);
  for (const { health } of ejected.slice(Math.floor(backends.length / 2))) health.readmit(nowMs);
}
