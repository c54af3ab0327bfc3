/**
 * What do people read of a build with stages that are made? What those are made of has values of variables in it, and whoever may
 * look at an app reads its builds: of them is told what people wrote. Pure.
 */
export type Prepared = {
  /** The instruction that takes from the stage: its first line, and itself. */
  line: number;
  text: string;
  /** What the engine says of it may then have their values in it. */
  hasVariables: boolean;
};

const mostOfText = 1_000;
/** Longer lines come in pieces: what the engine says next of a step is none. */
const follows = /^ ---> (?:Using cache|Running in [0-9a-f]{12,64}|[0-9a-f]{12,64})$/;

/** Of one build, whose lines it is given in their order. */
export class BuildWords {
  /** By the name of the stage that is made, in small letters. */
  readonly #prepared: ReadonlyMap<string, Prepared>;
  readonly #lineOf: (line: string) => string;
  /** The stage that has begun, if it is made. */
  #stage: Prepared | undefined;
  /** What the step that has begun prepares, or takes. */
  #step: Prepared | undefined;
  #isSayingStep = false;

  /** `lineOf`: what people wrote, by the line that the engine has. */
  constructor(prepared: ReadonlyMap<string, Prepared>, lineOf: (line: string) => string) {
    this.#prepared = prepared;
    this.#lineOf = lineOf;
  }

  /** Undefined for a line that is not for people. */
  told(line: string): string | undefined {
    if (this.#isSayingStep) {
      if (!follows.test(line)) return undefined;
      this.#isSayingStep = false;
      return line;
    }
    const [, begin, step = ''] = /^(Step \d+\/\d+ : )([^]*)$/.exec(line) ?? [];
    if (begin === undefined) return line;
    if (/^FROM\s/i.test(step)) this.#stage = this.#called(/ AS (\S+)$/i.exec(step));
    const taken = this.#stage === undefined ? this.#called(/^COPY --from=(\S+) /.exec(step)) : undefined;
    this.#step = this.#stage ?? taken;
    if (this.#step === undefined) return line;
    this.#isSayingStep = true;
    const { text, line: place } = this.#step;
    if (taken === undefined) return `${begin}what line ${place} copies is prepared`;
    return begin + (text.length > mostOfText ? `${text.slice(0, mostOfText)}…`.toWellFormed() : text);
  }

  /** Why it failed, once all lines were given. */
  failure(said: string): string {
    if (this.#step === undefined)
      return said.replace(
        /(parse error (?:on )?line )(\d+)/i,
        (_all, before: string, line: string) => before + this.#lineOf(line),
      );
    const { line, hasVariables } = this.#step;
    const what = `What line ${line} of the Dockerfile copies could not be prepared`;
    const code = / returned a (non-zero code: \d+)/.exec(said)?.[1];
    if (code !== undefined) return `${what}: ${code}`;
    if (!hasVariables) return said;
    return `${what}: see that all it names is there. What the engine says of it is left out, as it may have values of variables in it`;
  }

  #called(found: RegExpExecArray | null): Prepared | undefined {
    return this.#prepared.get(found?.[1]?.toLowerCase() ?? '');
  }
}
