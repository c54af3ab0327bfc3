/**
 * Whose steps does a build find done? The engine looks among all that is on the host, and takes what another app has built, or
 * has brought, for a step that looks the same. So each stage begins with a label that is the app's own: what is built on it is,
 * too. Nobody learns it: it is told in no log, and taken out of the image before that leaves the host. Pure.
 */
import { createHash } from 'node:crypto';
import { parseJsonAs } from '@flynn/controller/images/image-config';
import { z } from 'zod';

const name = 'flynn.cache';

/** An instruction. `cache`: what is the app's, and nobody's to guess. */
export function markOf(cache: string): string {
  return `LABEL ${name}=${createHash('sha256').update(`steps of ${cache}`).digest('hex')}`;
}

const labelled = z.looseObject({ Labels: z.record(z.string(), z.string()).nullish() });
const configSchema = z.looseObject({
  config: labelled.nullish(),
  container_config: z.unknown().optional(),
  history: z.array(z.looseObject({ created_by: z.string().optional(), empty_layer: z.boolean().optional() })).nullish(),
});

/** An image's configuration as it would be without. */
export function withoutMark(configText: string): string {
  // What the engine's last container was like is no part of an image, but has the label, too.
  const { container_config: _last, ...image } = parseJsonAs(configSchema, configText, "the image's configuration");
  const { config, history } = image;
  const isMark = (step: { created_by?: string | undefined; empty_layer?: boolean | undefined }): boolean =>
    step.empty_layer === true && step.created_by?.includes(`LABEL ${name}=`) === true;
  return JSON.stringify({
    ...image,
    ...(config == null ? {} : { config: withoutLabel(config) }),
    ...(history == null ? {} : { history: history.filter((step) => !isMark(step)) }),
  });
}

function withoutLabel(config: z.output<typeof labelled>): z.output<typeof labelled> {
  if (config.Labels == null) return config;
  const { [name]: _mark, ...labels } = config.Labels;
  return { ...config, Labels: Object.keys(labels).length === 0 ? null : labels };
}
