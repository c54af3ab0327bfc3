/** What does `git push -o …` ask for? */
import { longestWaitMs } from '@flynn/controller/operations/expiry';
import { durationMs } from '@flynn/kit/config';

export type PushOptions = { expiresInMs?: number } | { refusal: string[] };

const how = 'git push -o expires=10m flynn main fails, and changes nothing, if no runner has begun the build by then.';

/** Of several of one name the last counts, as git has it. */
export function parsePushOptions(options: readonly string[]): PushOptions {
  let asked: { expiresInMs?: number } = {};
  for (const option of options) {
    const [, name = option, value = ''] = /^([^=]*)=(.*)$/s.exec(option) ?? [];
    const shown = JSON.stringify(option.slice(0, 60));
    if (name !== 'expires') return { refusal: [`${shown} is no option of pushes here.`, how] };
    const { data: expiresInMs } = durationMs.safeParse(value);
    if (expiresInMs === undefined) return { refusal: [`${shown} is no length of time.`, how] };
    if (expiresInMs < 1_000) return { refusal: [`${shown} is over at once.`, how] };
    if (expiresInMs > longestWaitMs) return { refusal: [`${shown} is more than a year.`, how] };
    asked = { expiresInMs };
  }
  return asked;
}
