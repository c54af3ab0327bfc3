/** What does the engine say of a build? Lines for people, the images it makes on the way, and why it failed. */
import { FlynnError } from '@flynn/kit/errors';
import { LineSplitter } from '@flynn/kit/lines';

/** Follows the images that a build makes. */
export class BuildSteps {
  /** Of each stage that has begun, the last image, in their order. */
  readonly stageEnds: string[] = [];
  /** Not found from an earlier build, but made by this one. */
  readonly made: string[] = [];
  #isStageNew = false;
  #isFrom = false;
  #isCached = false;

  take(line: string): void {
    const step = /^Step \d+\/\d+ : (\S+)/.exec(line)?.[1];
    if (step !== undefined) {
      this.#isFrom = step.toUpperCase() === 'FROM';
      this.#isStageNew ||= this.#isFrom;
      this.#isCached = false;
      return;
    }
    if (line.startsWith(' ---> Using cache')) this.#isCached = true;
    const id = /^ ---> ([0-9a-f]{12,64})$/.exec(line)?.[1];
    if (id === undefined) return;
    if (this.#isStageNew) this.stageEnds.push(id);
    else this.stageEnds[this.stageEnds.length - 1] = id;
    this.#isStageNew = false;
    if (!this.#isFrom && !this.#isCached) this.made.push(id);
  }
}

/** `error` is the older word for what `errorDetail` says. */
type Progress = { stream?: string; status?: string; error?: string; errorDetail?: { message?: string } };

/** What a step writes to its standard error is painted red piece by piece, and a piece may be a letter. */
const betweenPieces = '\u001b[0m\u001b[91m';
/** How the engine says that a base image adds steps of its own. */
const trigger = /^# Executing \d+ build triggers?/;
const maxLineBytes = 8 * 1024;
/** The engine says all of a step's command again, in front of the code that it ended with. */
const failureStart = 1_500;
const failureEnd = 500;

/**
 * To its end; `invalid` with the reason, which may be shortened in its middle, when the build failed. Reading slowly slows
 * the build down.
 */
export async function readBuildProgress(
  progress: NodeJS.ReadableStream,
  steps: BuildSteps,
  onText: (text: string) => Promise<void> | void,
): Promise<void> {
  const messages = new LineSplitter({ maxBytes: 16 * 1024 ** 2 });
  const lines = new LineSplitter({ maxBytes: maxLineBytes });
  const told = async (found: readonly string[]): Promise<void> => {
    for (const marked of found) {
      const line = marked.replaceAll(betweenPieces, '');
      if (trigger.test(line))
        throw new FlynnError(
          'invalid',
          'the image it is built on has ONBUILD steps: nobody has checked what those take in',
        );
      steps.take(line);
      await onText(line);
    }
  };
  const take = async (message: string): Promise<void> => {
    if (message.trim() === '') return;
    const { stream, error, errorDetail, status } = JSON.parse(message) as Progress;
    if (stream !== undefined) await told(lines.push(Buffer.from(stream)));
    // Of a download its beginning and end: what is between moves a bar that is not there.
    if (status !== undefined && /^(Pulling from|Digest:|Status:)/.test(status)) await told([status]);
    const failure = errorDetail?.message ?? error;
    if (failure === undefined) return;
    await told(lines.flush());
    throw new FlynnError('invalid', shortened(failure));
  };
  for await (const chunk of progress) for (const message of messages.push(Buffer.from(chunk))) await take(message);
  for (const message of messages.flush()) await take(message);
  await told(lines.flush());
}

function shortened(failure: string): string {
  const left = failure.length - failureStart - failureEnd;
  if (left <= 0) return failure;
  return `${failure.slice(0, failureStart)} [… ${left} more …] ${failure.slice(-failureEnd)}`.toWellFormed();
}
