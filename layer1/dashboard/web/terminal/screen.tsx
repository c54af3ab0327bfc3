/** The screen of a terminal and its connection. */
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import { useEffect, useRef, useState } from 'preact/hooks';
import { adoptStyles } from './adopted-styles.ts';
import { stateAtClose, stateOfMessage, type TerminalState, type TerminalTarget, terminalUrl } from './session.ts';

/** Lines above the screen that can be scrolled back to. */
const scrollbackLines = 5_000;

export function TerminalScreen({ target, onEnd }: { target: TerminalTarget; onEnd: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<TerminalState>({ is: 'connecting' });
  useEffect(() => {
    if (box.current === null) return undefined;
    return openTerminal(box.current, target, setState);
  }, []);
  return (
    <div class="terminal">
      <div class="terminal-head">
        <span role="status">{stateText(state)}</span>
        <button type="button" class="plain small" onClick={onEnd}>
          Close
        </button>
      </div>
      <div class="terminal-screen" ref={box} />
    </div>
  );
}

function stateText(state: TerminalState): string {
  switch (state.is) {
    case 'connecting':
      return 'Connecting …';
    case 'open':
      return 'Connected. Ctrl-D ends it; Esc, then Tab leaves the terminal.';
    case 'exited':
      return `Ended with exit code ${state.code}.`;
    case 'failed':
    default:
      return state.why;
  }
}

/** Answers what ends it. */
function openTerminal(box: HTMLElement, target: TerminalTarget, onState: (state: TerminalState) => void): () => void {
  const style = getComputedStyle(box);
  const theme = { background: style.backgroundColor, foreground: style.color, cursor: style.color };
  const terminal = new Terminal({
    theme,
    cursorBlink: false,
    fontFamily: style.fontFamily,
    fontSize: 13,
    scrollback: scrollbackLines,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  const stopStyles = adoptStyles(box);
  fit.fit();
  terminal.focus();

  let state: TerminalState = { is: 'connecting' };
  const become = (next: TerminalState) => {
    state = next;
    onState(next);
  };
  const size = { columns: terminal.cols, rows: terminal.rows };
  const socket = new WebSocket(terminalUrl(target, size, location.href));
  socket.binaryType = 'arraybuffer';
  const encoder = new TextEncoder();
  socket.onopen = () => become({ is: 'open' });
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>) => {
    if (typeof data === 'string') become(stateOfMessage(data) ?? state);
    else terminal.write(new Uint8Array(data));
  };
  socket.onclose = (close) => become(stateAtClose(state, close));
  const isOpen = () => socket.readyState === WebSocket.OPEN;
  terminal.onData((text) => {
    if (isOpen()) socket.send(encoder.encode(text));
  });
  terminal.onBinary((bytes) => {
    if (isOpen()) socket.send(Uint8Array.from(bytes, (character) => character.charCodeAt(0)));
  });
  terminal.onResize(({ cols, rows }) => {
    if (isOpen()) socket.send(JSON.stringify({ type: 'resize', columns: cols, rows }));
  });
  terminal.attachCustomKeyEventHandler(leavesBy(terminal));
  const sizes = new ResizeObserver(() => fit.fit());
  sizes.observe(box);
  return () => {
    sizes.disconnect();
    stopStyles();
    socket.onclose = null;
    socket.close();
    terminal.dispose();
  };
}

/** Tab is the program's; after Esc it goes on to what comes next on the page, as nobody is to be caught in here. */
function leavesBy(terminal: Terminal): (event: KeyboardEvent) => boolean {
  let wasEscape = false;
  return (event) => {
    if (event.type !== 'keydown' || event.key === 'Shift') return true;
    const isLeaving = wasEscape && event.key === 'Tab';
    wasEscape = event.key === 'Escape';
    if (isLeaving) terminal.blur();
    return !isLeaving;
  };
}
