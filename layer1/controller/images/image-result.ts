/** What is made of an image: the same record that a build leaves, and so the same release. */
import { FlynnError } from '@flynn/kit/errors';
import { type BuildResult, buildResultSchema } from '../model.ts';
import type { ArchivedImage } from './archived-image.ts';
import { hasCommand, portOf } from './image-config.ts';
import type { StoredImage } from './stored-image.ts';

/**
 * `isCommandMeant`: whether the command that the image has is the app's `web` where no line says another. Errors: `invalid` if
 * there is nothing to start. The same image with the same lines gives the same record.
 */
export function resultOf(
  image: Pick<ArchivedImage, 'name' | 'config'>,
  { config, layers }: StoredImage,
  processTypes: Readonly<Record<string, string>>,
  {
    name = image.name,
    hint = '--process web="COMMAND" says it',
    isCommandMeant = true,
  }: { name?: string | undefined; hint?: string; isCommandMeant?: boolean } = {},
): BuildResult {
  const isStartable = isCommandMeant && hasCommand(image.config);
  if (!isStartable && Object.keys(processTypes).length === 0) {
    throw new FlynnError(
      'invalid',
      `the image${name === undefined ? '' : ` ${name}`} does not say what to start: it has neither ENTRYPOINT nor CMD\n  ${hint}`,
    );
  }
  const port = portOf(image.config);
  return buildResultSchema.parse({
    layers,
    image: { config, hasCommand: isStartable, ...(port === undefined ? {} : { port }) },
    sizeBytes: layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    processTypes,
    buildpack: 'image',
    meta: name === undefined ? {} : { 'image.name': name },
  });
}
