import { integer, secret } from '@flynn/kit/config';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key: whoever has it may read and write every app's lines. */
  FLYNN_KEY: secret(),
  PORT: integer.default(8080),
});
