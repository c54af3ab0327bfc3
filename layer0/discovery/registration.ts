/** What may be registered, and how a refused compare is told: the same from every driver. */
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import { serviceName } from '@flynn/kit/names';
import type { z } from 'zod';
import { instanceSchema, leaderChoiceSchema, registrationSchema } from './api.ts';
import type { LeaderChoice } from './api.ts';
import type { Registration } from './registry.ts';

/** Throws `invalid`. */
export function checkRegistration(registration: Registration): Required<Registration> {
  const { service, id, address, attributes } = registration;
  const named = parse(instanceSchema.pick({ service: true, id: true }), { service, id });
  return { ...named, ...parse(registrationSchema.pick({ address: true, attributes: true }), { address, attributes }) };
}

export function checkService(service: string): string {
  return parse(serviceName, service);
}

export function checkChoice(choice: LeaderChoice): LeaderChoice {
  return parse(leaderChoiceSchema, choice);
}

function parse<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw asFlynnError(parsed.error);
  return parsed.data;
}

export function metaConflict(service: string, wanted: number, found: number): FlynnError {
  if (wanted === 0) {
    const message = `the meta of ${service} exists already, at version ${found}: read it, and write over that version`;
    return new FlynnError('conflict', message, { detail: { reason: 'exists', version: found } });
  }
  const is = found === 0 ? 'does not exist' : `is at version ${found}`;
  const message = `the meta of ${service} ${is}, not at version ${wanted}: read it again and repeat the change`;
  return new FlynnError('conflict', message, { detail: { reason: 'mismatch', version: found } });
}
