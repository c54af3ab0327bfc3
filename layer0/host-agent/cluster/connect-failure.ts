/** Does anybody answer there? */
import { connect } from 'node:net';
import { messageOf } from '@flynn/kit/errors';

const patienceMs = 3_000;

/** Why no TCP connection is made within 3 s, for people; undefined when one is. Throws when the signal aborts. */
export async function connectFailure(
  { address, port }: { address: string; port: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const deadline = AbortSignal.timeout(patienceMs);
  const socket = connect({ host: address, port });
  const outcome = Promise.withResolvers<string | undefined>();
  socket.once('connect', () => outcome.resolve(undefined));
  socket.once('error', (error) => outcome.resolve(messageOf(error)));
  const give = (): void => outcome.resolve('no answer within 3 s');
  const either = AbortSignal.any([deadline, signal]);
  either.addEventListener('abort', give, { once: true });
  if (either.aborted) give();
  const failure = await outcome.promise;
  either.removeEventListener('abort', give);
  socket.destroy();
  signal.throwIfAborted();
  return failure;
}
