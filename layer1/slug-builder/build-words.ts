/**
 * What do people read of a build with steps that are made? What those are made of has values of variables in it, and whoever may
 * look at an app reads its builds: of them is told what people wrote. Pure.
 */
export type Prepared = {
  /** The instruction that takes from the stage: its first line, and itself. */
  line: number;
  text: string;
  /** What the engine says of it may then have their values in it. */
  hasVariables: boolean;
};

/** Of one step. `mark`: it is nobody's to read, and is not counted. Undefined: people wrote it as it is. */
export type StepWords = 'mark' | (Prepared & { what: 'stage' | 'taking' | 'instruction' }) | undefined;

const mostOfText = 1_000;
/** Longer lines come in pieces: what the engine says next of a step is none. */
const follows = /^ ---> (?:Using cache|Running in [0-9a-f]{12,64}|[0-9a-f]{12,64})$/;

/** Of one build, whose lines it is given in their order. */
export class BuildWords {
  readonly #steps: readonly StepWords[];
  /** How many of them are marks, up to each. */
  readonly #marks: readonly number[];
  readonly #lineOf: (line: string) => string;
  /** What the step that has begun prepares, or takes. */
  #step: StepWords;
  #isSayingStep = false;

  /** `lineOf`: what people wrote, by the line that the engine has. */
  constructor(steps: readonly StepWords[], lineOf: (line: string) => string) {
    let count = 0;
    this.#steps = steps;
    this.#marks = steps.map((step) => (count += step === 'mark' ? 1 : 0));
    this.#lineOf = lineOf;
  }

  /** Undefined for a line that is not for people. */
  told(line: string): string | undefined {
    if (this.#isSayingStep) {
      if (!follows.test(line)) return undefined;
      this.#isSayingStep = false;
      return line;
    }
    const [, at = '', of = '', step = ''] = /^Step (\d+)\/(\d+) : ([^]*)$/.exec(line) ?? [];
    if (at === '') return this.#step === 'mark' ? undefined : line;
    this.#step = this.#steps[Number(at) - 1];
    if (this.#step === 'mark') return undefined;
    const begin = this.#begin(Number(at), Number(of));
    if (this.#step === undefined) return begin + step;
    this.#isSayingStep = true;
    const { what, text, line: place } = this.#step;
    if (what === 'stage') return `${begin}what line ${place} copies is prepared`;
    return begin + (text.length > mostOfText ? `${text.slice(0, mostOfText)}…`.toWellFormed() : text);
  }

  #begin(at: number, of: number): string {
    if (of !== this.#steps.length) return `Step ${at}/${of} : `;
    return `Step ${at - (this.#marks[at - 1] ?? 0)}/${of - (this.#marks.at(-1) ?? 0)} : `;
  }

  /** Why it failed, once all lines were given. */
  failure(said: string): string {
    if (this.#step === undefined || this.#step === 'mark')
      return said.replace(
        /(parse error (?:on )?line )(\d+)/i,
        (_all, before: string, line: string) => before + this.#lineOf(line),
      );
    const { what, line, hasVariables } = this.#step;
    if (what === 'instruction') return said;
    const problem = `What line ${line} of the Dockerfile copies could not be prepared`;
    const code = / returned a (non-zero code: \d+)/.exec(said)?.[1];
    if (code !== undefined) return `${problem}: ${code}`;
    if (!hasVariables) return said;
    return `${problem}: see that all it names is there. What the engine says of it is left out, as it may have values of variables in it`;
  }
}
