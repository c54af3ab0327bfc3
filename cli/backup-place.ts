/** Where backups are to go, as the command line says it. What opens a bucket is in the environment: others see the line. */
import type { S3Place } from '@flynn/controller/backup/model';
import { usageError } from './arguments.ts';

export type PlaceOptions = { to?: string; host?: string; endpoint?: string; region?: string };
type Place = { directory: string; host?: string } | { s3: S3Place };

const defaultRegion = 'us-east-1';

export function placeOf(
  { to = '', host, endpoint, region }: PlaceOptions,
  env: Readonly<Record<string, string | undefined>>,
): Place {
  const directory = /^dir:(\/.*)$/.exec(to)?.[1];
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)\/?(.*)$/.exec(to) ?? [];
  if (directory !== undefined) {
    if (endpoint !== undefined || region !== undefined) throw usageError('--endpoint and --region are of s3://BUCKET');
    return { directory, ...(host === undefined ? {} : { host }) };
  }
  if (bucket === undefined) {
    throw usageError(`"${to}" is no place for backups: write --to dir:/PATH or --to s3://BUCKET/PREFIX`);
  }
  if (host !== undefined) throw usageError('--host is of dir:/PATH: a bucket is reached from every host');
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secret } = env;
  if (!accessKeyId || !secret) {
    throw usageError(`what opens ${to}? Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment`);
  }
  const of = region ?? env['AWS_REGION'] ?? defaultRegion;
  const at = endpoint ?? env['AWS_ENDPOINT_URL'] ?? `https://s3.${of}.amazonaws.com`;
  return { s3: { endpoint: at, region: of, bucket, prefix: prefix.replace(/\/+$/, ''), accessKeyId, secret } };
}
