/** What is set aside of a host, and what it has. */
import { z } from 'zod';

export const resourcesSchema = z.object({
  memoryBytes: z.int().positive(),
  /** 1000 is one core. */
  cpuMillis: z.int().nonnegative(),
});
export type Resources = z.output<typeof resourcesSchema>;
