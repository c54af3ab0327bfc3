/** What somebody saw when they began to change an app is not what is there any more. For both sides of the API. */
import { FlynnError, hasCode } from '@flynn/kit/errors';

export function overtaken(app: string): FlynnError {
  return new FlynnError(
    'conflict',
    `${app} was changed by somebody else at the same time, which this would take back: look at "flynn release -a ${app}", then do it again`,
    { detail: { isOvertaken: true } },
  );
}

/**
 * `send` with what was seen, as fields of its body. A controller of a version before these refuses what it does not know: then it
 * is asked without them, after `check`, which is to look by itself and is no more than nearly as good.
 */
export async function withSeen<Seen extends object, T>(
  seen: Seen,
  send: (seen: Partial<Seen>) => Promise<T>,
  check: () => Promise<void> = async () => {},
): Promise<T> {
  try {
    return await send(seen);
  } catch (error) {
    if (!isUnknown(error, Object.keys(seen))) throw error;
    await check();
    return send({});
  }
}

function isUnknown(error: unknown, fields: readonly string[]): boolean {
  const unknown = hasCode(error, 'invalid') ? error.detail['unknown'] : undefined;
  return Array.isArray(unknown) && unknown.length > 0 && unknown.every((field) => fields.includes(field));
}

export function isOvertaken(error: unknown): error is FlynnError {
  return hasCode(error, 'conflict') && error.detail['isOvertaken'] === true;
}
