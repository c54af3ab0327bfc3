/** What does the Cargo.toml at the top say of the app? Pure. */
import { z } from 'zod';
import { readToml } from '../toml.ts';
import type { Wish } from '../wanted-version.ts';

const file = 'Cargo.toml';
const dependencies = z.record(z.string(), z.unknown()).optional();
/** `{ workspace = true }`: as the workspace has it. */
const inherited = z.object({ workspace: z.boolean() });
const manifestSchema = z.object({
  package: z
    .object({
      name: z.string(),
      'default-run': z.string().optional(),
      'rust-version': z.union([z.string(), inherited]).optional(),
    })
    .optional(),
  dependencies,
  workspace: z
    .object({ package: z.object({ 'rust-version': z.string().optional() }).optional(), dependencies })
    .optional(),
});

export type Manifest = {
  /** The program that is meant where none is named. Undefined for a workspace without a package of its own. */
  main: string | undefined;
  /** The oldest Rust that it compiles with. */
  wish: Wish | undefined;
  isRocket: boolean;
};

/** Whether there is one to build: `sources` are names in `src`. The manifest may be one that nobody can read yet. */
export function hasPrograms(manifest: string, sources: readonly string[]): boolean {
  return /^\s*\[(?:\[bin\]|workspace\b)/m.test(manifest) || sources.includes('main.rs') || sources.includes('bin');
}

export function parseManifest(text: string): Manifest {
  const { package: root, workspace, dependencies } = readToml(text, manifestSchema, { name: file });
  const own = root?.['rust-version'];
  const version = typeof own === 'string' ? own : workspace?.package?.['rust-version'];
  return {
    main: root?.['default-run'] ?? root?.name,
    wish: version === undefined ? undefined : { version, file },
    isRocket: [dependencies, workspace?.dependencies].some((each) => each?.['rocket'] !== undefined),
  };
}
