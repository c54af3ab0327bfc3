/** Which image in which registry? `registry.example.com:5000/team/app:1.4`, or with `@sha256:…` instead of a tag. */
import { FlynnError } from '@flynn/kit/errors';

export type Reference = { registry: string; repository: string; /** A tag, or a digest. */ version: string };

const component = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const pattern = new RegExp(
  `^(?<registry>[A-Za-z0-9.-]+(?::\\d{1,5})?)/(?<repository>${component}(?:/${component})*)` +
    `(?::(?<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$`,
);

/** Errors: `invalid`. What has no dot and no port is taken for a name within a registry that was not said. */
export function parseReference(text: string): Reference {
  const { registry = '', repository = '', tag, digest } = pattern.exec(text)?.groups ?? {};
  const isHost = /[.:]/.test(registry) || registry === 'localhost';
  if (!isHost) {
    throw new FlynnError(
      'invalid',
      `"${text}" does not name an image of a registry: write REGISTRY/NAME:TAG, as in registry.example.com/team/app:1.4`,
    );
  }
  return { registry, repository, version: digest ?? tag ?? 'latest' };
}
