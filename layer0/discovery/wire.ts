/** Discovery's events on the wire: JSON has no undefined. */
import type { ServerEvent } from '@flynn/kit/routes';
import { z } from 'zod';
import { instanceSchema, serviceMetaSchema } from './api.ts';
import type { DiscoveryEvent } from './api.ts';

const leaderData = z.object({ service: z.string(), instance: instanceSchema.nullable() });
const metaData = z.object({ service: z.string(), meta: serviceMetaSchema.nullable() });
const laggedData = z.object({ missed: z.int() });

export function encodeDiscoveryEvent(event: DiscoveryEvent): ServerEvent {
  switch (event.event) {
    case 'current':
      return { event: event.event, data: {} };
    case 'lagged':
      return { event: event.event, data: { missed: event.missed } };
    case 'leader':
      return { event: event.event, data: { service: event.service, instance: event.instance ?? null } };
    case 'meta':
      return { event: event.event, data: { service: event.service, meta: event.meta ?? null } };
    case 'up':
    case 'update':
    case 'down':
      return { event: event.event, data: event.instance };
    default:
      return event satisfies never;
  }
}

/** undefined for an event this version does not know. Throws what the schema says of data it cannot read. */
export function decodeDiscoveryEvent({ event, data }: ServerEvent): DiscoveryEvent | undefined {
  switch (event) {
    case 'current':
      return { event };
    case 'lagged':
      return { event, missed: laggedData.parse(data).missed };
    case 'leader': {
      const { service, instance } = leaderData.parse(data);
      return { event, service, instance: instance ?? undefined };
    }
    case 'meta': {
      const { service, meta } = metaData.parse(data);
      return { event, service, meta: meta ?? undefined };
    }
    case 'up':
    case 'update':
    case 'down':
      return { event, instance: instanceSchema.parse(data) };
    default:
      return undefined;
  }
}
