/** What somebody saw when they began to change an app is not what is there any more. For both sides of the API. */
import { FlynnError, hasCode } from '@flynn/kit/errors';

export function overtaken(app: string): FlynnError {
  return new FlynnError(
    'conflict',
    `${app} was changed by somebody else at the same time, which this would take back: look at "flynn release -a ${app}", then do it again`,
    { detail: { isOvertaken: true } },
  );
}

export function isOvertaken(error: unknown): boolean {
  return hasCode(error, 'conflict') && error.detail['isOvertaken'] === true;
}
