/** Steps shown as they are taken. */
import { abortError } from '@flynn/kit/clock';
import { raceAbort } from '@flynn/kit/retry';
import { Listr, PRESET_TIMER } from 'listr2';
import type { Step } from './step.ts';

/**
 * The first that fails ends them; what it threw is thrown. So does the signal: a step under way is left behind, unless it
 * `isWhole`.
 */
export async function runSteps(steps: readonly Step[], signal?: AbortSignal): Promise<void> {
  let failure: unknown;
  const list = new Listr(
    steps.map((step) => ({
      title: step.title,
      task: async (_context: unknown, task: { title: string; output: string }) => {
        let word: string | void;
        try {
          if (signal?.aborted === true) throw abortError(signal);
          const running = step.run((line) => {
            task.output = line;
          });
          word = await (signal === undefined || step.isWhole === true ? running : raceAbort(running, signal));
        } catch (error) {
          // Told in full once the list is done, not squeezed into a line of it.
          failure = error;
          throw new Error('see below', { cause: error });
        }
        if (typeof word === 'string') task.title = `${step.title}: ${word}`;
      },
    })),
    {
      concurrent: false,
      exitOnError: true,
      // It would end the program by itself, whatever that has to see to first.
      registerSignalListeners: signal === undefined,
      renderer: 'default',
      fallbackRenderer: 'simple',
      rendererOptions: { timer: PRESET_TIMER, collapseErrors: false, showErrorMessage: false },
      fallbackRendererOptions: { timer: PRESET_TIMER },
    },
  );
  try {
    await list.run();
  } catch (error) {
    throw failure ?? error;
  }
}
