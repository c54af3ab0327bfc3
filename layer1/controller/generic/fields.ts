/** A rule that knows nothing of documents, told with the field that broke it. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { refusal } from '@flynn/resource/record';

/** Throws `invalid` at the path where `read` throws it without one. */
export function atField<T>(what: string, path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!hasCode(error, 'invalid') || error.detail['issues'] !== undefined) throw error;
    throw refusal(what, [{ path, message: messageOfRefusal(error) }]);
  }
}

function messageOfRefusal(error: FlynnError): string {
  return error.message.replaceAll(/\s*\n\s*/g, ' ');
}
