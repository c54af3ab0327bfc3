/** The kinds of datastores there are, by name. Another is one module beside, and an image of its own. */
import type { Appliance } from './appliance.ts';
import { postgres } from './postgres/postgres.ts';

export const appliances: ReadonlyMap<string, Appliance> = new Map([postgres].map((one) => [one.name, one]));
