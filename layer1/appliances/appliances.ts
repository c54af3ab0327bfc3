/** The kinds of datastores there are, by name. Another is one module beside, and an image of its own. */
import type { Appliance } from './appliance.ts';
import { postgres } from './postgres/postgres.ts';
import { redis } from './redis/redis.ts';

export const appliances: ReadonlyMap<string, Appliance> = new Map([postgres, redis].map((one) => [one.name, one]));
