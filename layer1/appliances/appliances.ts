/** The kinds of datastores there are, by name. Another is one module beside, and an image of its own. */
import type { Appliance } from './appliance.ts';
import { type KindName, kindNames } from './kinds.ts';
import { mysql } from './mysql/mysql.ts';
import { postgres } from './postgres/postgres.ts';
import { redis } from './redis/redis.ts';

const all: Readonly<Record<KindName, Appliance>> = { postgres, redis, mysql };

export const appliances: ReadonlyMap<string, Appliance> = new Map(kindNames.map((name) => [name, all[name]]));
