import type { AppState } from '../world/app-state.ts';
import { Badge } from '../parts/badge.tsx';
import type { Tone } from '../parts/tone.ts';

const shown: Readonly<Record<AppState, readonly [tone: Tone, text: string]>> = {
  new: ['quiet', 'new'],
  deploying: ['busy', 'deploying'],
  waiting: ['warn', 'waits for you'],
  maintenance: ['warn', 'maintenance'],
  off: ['quiet', 'scaled to 0'],
  up: ['good', 'up'],
  partly: ['warn', 'some down'],
  down: ['bad', 'down'],
  crashed: ['bad', 'crashed'],
};

export function AppBadge({ state }: { state: AppState }) {
  const [tone, text] = shown[state];
  return <Badge tone={tone}>{text}</Badge>;
}
