import { integer, secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key: whoever has it may read and write every blob. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** A directory on a volume that outlives the container. */
  FLYNN_STORAGE_DIR: z.string().startsWith('/').default('/data'),
  /** Where the volume is, and service discovery, to find the other stores. Without them there are none. */
  FLYNN_HOST_ID: z.string().default('this host'),
  FLYNN_DISCOVERY_URL: z.url().optional(),
  /** How fast copies are taken over from other stores, in MiB a second. */
  FLYNN_COPY_MB_PER_SECOND: integer.pipe(z.int().min(1)).default(32),
  /** A bucket of a service that speaks S3, and a folder in it of which this cluster is the only user. */
  BLOB_S3_URL: z
    .string()
    .regex(/^s3:\/\/[^/]+(\/[^?#]*)?$/, 'expected s3://BUCKET/FOLDER')
    .optional(),
  /** Default: AWS's own of the region. */
  BLOB_S3_ENDPOINT: z.url({ protocol: /^https?$/, error: 'expected a URL like https://s3.example.com' }).optional(),
  BLOB_S3_REGION: z.string().default('us-east-1'),
  AWS_ACCESS_KEY_ID: z.string().optional(),
  AWS_SECRET_ACCESS_KEY: secret().optional(),
  /** Where blobs are kept when there is a bucket; `disk` takes them back from it. */
  BLOB_KEEP_ON: z.enum(['s3', 'disk']).default('s3'),
  PORT: integer.default(8080),
});

export type Config = z.output<typeof configSchema>;
