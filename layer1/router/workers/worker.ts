/** The worker's end of the line to its parent. */
import { messageOf } from '@flynn/kit/errors';
import { fromParent, signOfLife } from './messages.ts';
import type { FromWorker } from './messages.ts';

/** None may be undefined: nothing would be sent, and the parent would wait for it. */
export type Answers = Readonly<Record<string, (input: unknown) => Promise<{} | null>>>;

/** What a child process of Node has, as far as it is needed here. */
type Line = {
  readonly connected?: boolean | undefined;
  send?: ((message: FromWorker, handle?: undefined, options?: undefined, sent?: () => void) => boolean) | undefined;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
};

export type Parent = {
  /** What this worker has counted, once it counts no more. Resolves when it is on its way. */
  tellLast(counts: unknown): Promise<void>;
};

const alive = async () => null;

/** Tells the parent that this worker serves, and answers what it asks. `onOrphaned`: nobody supervises it any more. */
export function serveParent(line: Line, options: { answers: Answers; onOrphaned: () => void }): Parent {
  // The parent may end at any moment; then there is nobody to tell.
  const tell = (message: FromWorker) => void line.send?.(message, undefined, undefined, () => undefined);
  line.on('message', (message) => {
    const asked = fromParent.safeParse(message);
    if (!asked.success) return;
    const { id, question, input } = asked.data;
    const answer = question === signOfLife ? alive : options.answers[question];
    const answered =
      answer === undefined ? Promise.reject(new Error(`nobody here knows "${question}"`)) : answer(input);
    answered.then(
      (value) => tell({ type: 'answer', id, answer: value }),
      (error: unknown) => tell({ type: 'failure', id, message: messageOf(error) }),
    );
  });
  line.once('disconnect', options.onOrphaned);
  // It ended while this worker started: that is said once.
  if (line.connected === false) options.onOrphaned();
  tell({ type: 'serving' });
  return {
    tellLast: (counts) =>
      new Promise((resolve) => {
        if (line.send === undefined) resolve();
        else line.send({ type: 'last', counts }, undefined, undefined, resolve);
      }),
  };
}
