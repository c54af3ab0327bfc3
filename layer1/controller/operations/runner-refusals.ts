/** What a runner is told that gets no work, with what an operator can do about it. */
import { FlynnError } from '@flynn/kit/errors';
import type { RunnerResource } from '../resources.ts';

export function notAdopted({ id, status }: RunnerResource): FlynnError {
  return status.state === 'rejected'
    ? new FlynnError('denied', `runner ${id} was rejected: it gets no work until "flynn runner adopt ${id}"`)
    : new FlynnError('denied', `runner ${id} waits to be adopted: flynn runner adopt ${id}`);
}

export function forgotten(id: string): FlynnError {
  return new FlynnError('unauthenticated', `runner ${id} was forgotten: register first`);
}
