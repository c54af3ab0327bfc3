/** What the pusher sees: Heroku's look, one line at a time. */
import { LineSplitter } from '@flynn/kit/lines';

export type Output = {
  /** `-----> Installing…` */
  topic: (text: string) => void;
  /** Indented below a topic. */
  line: (text: string) => void;
  /** ` !     …`, for what went wrong or needs a look. */
  warn: (text: string) => void;
  /** As it is: a custom buildpack does its own indenting. */
  raw: (text: string) => void;
};

export function createOutput(write: (text: string) => void): Output {
  return {
    topic: (text) => write(`-----> ${text}\n`),
    line: (text) => write(`       ${text}`.trimEnd() + '\n'),
    warn: (text) =>
      write(
        text
          .split('\n')
          .map((line) => ` !     ${line}`.trimEnd() + '\n')
          .join(''),
      ),
    raw: (text) => write(`${text}\n`),
  };
}

/** Gives a program's output to `line`, however its chunks are cut. Call the answer's `end` when the stream has ended. */
export function lineSink(line: (text: string) => void): { push(chunk: Uint8Array): void; end(): void } {
  const splitter = new LineSplitter({ maxBytes: 16 * 1024 });
  return {
    push(chunk) {
      for (const text of splitter.push(chunk)) line(text);
    },
    end() {
      for (const text of splitter.flush()) line(text);
    },
  };
}

/** Heroku's way of telling sizes: 12.3M, 640K. */
export function sizeText(bytes: number): string {
  if (bytes < 1024 ** 2) return `${Math.ceil(bytes / 1024)}K`;
  if (bytes < 1024 ** 3) return `${(bytes / 1024 ** 2).toFixed(1)}M`;
  return `${(bytes / 1024 ** 3).toFixed(2)}G`;
}
