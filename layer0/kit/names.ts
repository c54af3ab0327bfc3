/** The shapes of names people choose, with messages that tell them what to type instead. */
import { z } from 'zod';

export const appName = z
  .string()
  .regex(
    /^(?:[a-z][a-z0-9-]{0,28}[a-z0-9]|[a-z])$/,
    'an app name is 1 to 30 lower-case letters, digits and dashes, starts with a letter and does not end with a dash, like "my-app"',
  );

export const processType = z
  .string()
  .regex(
    /^[a-z][a-z0-9_-]{0,29}$/,
    'a process type is 1 to 30 lower-case letters, digits, dashes and underscores and starts with a letter, like "web"',
  );

export const envName = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_]{0,254}$/,
    'an environment variable name is letters, digits and underscores and does not start with a digit, like "DATABASE_URL"',
  );

export const serviceName = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    'a service name is 1 to 63 lower-case letters, digits and dashes, starts and ends with a letter or digit, like "my-app-web"',
  );

export const hostTagName = z
  .string()
  .regex(
    /^[A-Za-z0-9._-]{1,64}$/,
    'a tag of a host is 1 to 64 letters, digits, dots, dashes and underscores, like "disk"',
  )
  // What every object has would be every host's.
  .refine(
    (name) => !(name in Object.prototype),
    'a tag of a host is no word that programs have a meaning for, like "constructor": take another one',
  );

export const headerName = z
  .string()
  .regex(/^[\w!#$%&'*+.^`|~-]{1,100}$/, 'the name of a header is letters, digits and dashes, like "X-Forwarded-Proto"');

export const headerValue = z
  .string()
  .max(1_000)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'a header holds no line ends and no control characters');
