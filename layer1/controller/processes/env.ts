/** Variables, as apps, processes and runners have them. */
import { envName } from '@flynn/kit/names';
import { z } from 'zod';

/** A container whose variables hold a NUL never starts. */
const envValue = z.string().refine((value) => !value.includes('\0'), 'a variable cannot hold a NUL character');
export const envSchema = z.record(envName, envValue);
