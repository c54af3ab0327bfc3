/** What an image says of itself: how it is started, where it listens, which layers it has. The OCI image specification's words. */
import { digestSchema } from '@flynn/blobstore/api';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';

const words = z.array(z.string()).nullish();

export const imageConfigSchema = z.object({
  os: z.string().default('linux'),
  architecture: z.string().default('amd64'),
  config: z
    .object({
      Entrypoint: words,
      Cmd: words,
      Env: words,
      /** `8080/tcp` → nothing. */
      ExposedPorts: z.record(z.string(), z.unknown()).nullish(),
    })
    .nullish(),
  rootfs: z.object({ type: z.literal('layers'), diff_ids: z.array(digestSchema) }),
});
export type ImageConfig = z.output<typeof imageConfigSchema>;

export function parseImageConfig(json: string): ImageConfig {
  const config = parseJsonAs(imageConfigSchema, json, "the image's configuration");
  if (config.os !== 'linux') {
    throw new FlynnError('invalid', `the image is made for ${config.os}: only images for Linux run here`);
  }
  return config;
}

/** Errors: `invalid`, which names what is not as it should be. */
export function parseJsonAs<T extends z.ZodType>(schema: T, json: string, what: string): z.output<T> {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new FlynnError('invalid', `${what} is no JSON`, { cause: error });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new FlynnError('invalid', `${what} is not as it should be: ${z.prettifyError(parsed.error)}`);
}

/** Whether it can be started without being told how. */
export function hasCommand(image: ImageConfig): boolean {
  return commandOf(image).length > 0;
}

/** What is started where nobody says another command. */
export function commandOf({ config }: ImageConfig): string[] {
  return [...(config?.Entrypoint ?? []), ...(config?.Cmd ?? [])];
}

/** By convention these start what follows. */
const wrapper = /^(?:.*entrypoint.*|tini|dumb-init|catatonit|-.*)$/;
const shell = /^(?:ba|da|a|z|k|mk)?sh$/;
const interpreter = /^(?:node|bun|deno|python|pypy|ruby|irb|php|perl|lua|erl|iex|jshell|ghci|julia|R)[\d.]*$/;
const promptFlag = /^(?:-[ail]|-de\d|--login|--interactive)$/;

/** Whether it starts a shell or an interpreter with nothing to run: without a terminal that ends at once. */
export function startsPrompt(image: ImageConfig): boolean {
  const words = commandOf(image);
  const start = words.findIndex((word) => !wrapper.test(fileOf(word)));
  if (start < 0) return false;
  const [program = '', flag, line, ...others] = words.slice(start);
  const isLine = shell.test(fileOf(program)) && flag === '-c' && line !== undefined && others.length === 0;
  return isPrompt(isLine ? line.trim().split(/\s+/) : words.slice(start));
}

function isPrompt([program = '', ...given]: readonly string[]): boolean {
  const name = fileOf(program);
  return (shell.test(name) || interpreter.test(name)) && given.every((word) => promptFlag.test(word));
}

function fileOf(path: string): string {
  return path.split('/').at(-1) ?? '';
}

/**
 * The TCP port it listens on, as far as it says so: the PORT of its own environment if that is exposed or nothing is, else
 * the lowest exposed one.
 */
export function portOf({ config }: ImageConfig): number | undefined {
  const exposed = Object.keys(config?.ExposedPorts ?? {})
    .flatMap((text) => /^(\d{1,5})(?:\/tcp)?$/.exec(text)?.[1] ?? [])
    .map(Number)
    .filter((port) => port >= 1 && port <= 65_535)
    .sort((a, b) => a - b);
  const told = Number(config?.Env?.find((line) => line.startsWith('PORT='))?.slice('PORT='.length));
  const isPort = Number.isInteger(told) && told >= 1 && told <= 65_535;
  return isPort && (exposed.length === 0 || exposed.includes(told)) ? told : exposed[0];
}
