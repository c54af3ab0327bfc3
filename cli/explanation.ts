/** What is a failure in words for people, and what can they do about it? */
import type { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { z } from 'zod';
import { controllerName } from './context.ts';

/** What the controller says of a request that is not as it should be. */
const faultsSchema = z.object({ issues: z.array(z.object({ path: z.string(), message: z.string() })) });

/** What happened, and what to do about it where the message does not say so itself. */
export function explain(error: FlynnError): string {
  const { message } = error;
  const faults = faultsSchema.safeParse(error.detail).data?.issues ?? [];
  // Who typed it knows of no request's body.
  if (error.code === 'invalid' && faults.length > 0) {
    return faults.map(({ path, message: what }) => (path === '' ? what : `${path}: ${what}`)).join('\n  ');
  }
  if (message.includes('\n')) return message;
  // What the cluster lacks inside is not for its address to answer.
  if ((error.code === 'unavailable' || error.code === 'timeout') && message.includes(controllerName)) {
    return `${message}\n  is the cluster up, and its address right? "flynn cluster" shows it; on the host: ${eitherCommand('up')}`;
  }
  if (error.code === 'unavailable' || error.code === 'timeout') {
    return `${message}\n  "flynn status" tells how the cluster is`;
  }
  if (error.code === 'unauthenticated') {
    const why = / expired at /.test(message) ? '' : 'the cluster does not know this key, or knows it no more: ';
    return `${message}\n  ${why}"flynn cluster add NAME URL KEY" sets another, "flynn login" asks for one`;
  }
  return message;
}
