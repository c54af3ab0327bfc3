/** What does a template say of the services there are? Handlebars is known to this file only. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import Handlebars from 'handlebars';
import { hasAttributes, findAddress } from './instances.ts';
import type { ServiceState } from './service-state.ts';
import type { Instance } from './api.ts';

/** Pure: the same services and environment give the same text. Throws `invalid` naming what the template asks for in vain. */
export type Template = (
  services: ReadonlyMap<string, ServiceState>,
  env: Readonly<Record<string, string | undefined>>,
) => string;

/**
 * Handlebars without HTML escaping, and strict: a name that does not exist is an error, not an empty place in a
 * configuration. Of what may be missing, like an attribute, `{{lookup attributes "zone"}}` gives what there is.
 *
 * `(services)` names of services with instances · `(instances "web" zone="a")` sorted by id, those with the attributes;
 * each has id, service, address, host, port, attributes · `(leader "db")` one such or nothing · `(meta "db")` the document
 * or nothing · `(json x)` · `(env "NAME" default="x")`, an error when it is not set and has no default.
 */
export function compileTemplate(text: string, name: string): Template {
  const handlebars = Handlebars.create();
  let now: { services: ReadonlyMap<string, ServiceState>; env: Readonly<Record<string, string | undefined>> };
  handlebars.registerHelper({
    services: () =>
      [...now.services]
        .filter(([, { instances }]) => instances.size > 0)
        .map(([service]) => service)
        .sort(),
    instances: (service: unknown, options: unknown) => {
      const state = now.services.get(textOf(service, 'instances'));
      return [...(state?.instances.values() ?? [])]
        .filter((instance) => hasAttributes(instance, conditionsOf(options)))
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .map(viewOf);
    },
    leader: (service: unknown) => {
      const leader = now.services.get(textOf(service, 'leader'))?.leader;
      return leader === undefined ? undefined : viewOf(leader);
    },
    meta: (service: unknown) => now.services.get(textOf(service, 'meta'))?.meta?.data,
    json: (value: unknown) => JSON.stringify(value ?? null),
    env: (variable: unknown, options: unknown) => {
      const asked = textOf(variable, 'env');
      const value = now.env[asked] ?? conditionsOf(options)['default'];
      if (value === undefined) throw new FlynnError('invalid', `the environment variable ${asked} is not set`);
      return value;
    },
  });
  const wrong = (error: unknown) => new FlynnError('invalid', `${name}: ${messageOf(error)}`, { cause: error });
  let fill: Handlebars.TemplateDelegate;
  try {
    // Compiling is put off until the first use; parsing finds the mistakes now.
    fill = handlebars.compile(handlebars.parse(text), { noEscape: true, strict: true });
  } catch (error) {
    throw wrong(error);
  }
  return (services, env) => {
    now = { services, env };
    try {
      return fill({});
    } catch (error) {
      throw wrong(error);
    }
  };
}

function viewOf(instance: Instance): Record<string, unknown> {
  const { id, service, address, attributes } = instance;
  return { id, service, address, attributes, ...findAddress(address) };
}

/** Handlebars passes its own options in place of an argument that was left out. */
function textOf(value: unknown, helper: string): string {
  if (typeof value === 'string') return value;
  throw new FlynnError('invalid', `${helper} takes a name, like (${helper} "web")`);
}

function conditionsOf(options: unknown): Record<string, string> {
  const hash: unknown = typeof options === 'object' && options !== null && 'hash' in options ? options.hash : {};
  return Object.fromEntries(Object.entries(hash ?? {}).map(([name, value]) => [name, String(value)]));
}
