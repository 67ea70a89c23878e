// Turns mouse and fingers into pulls on a body, turns of the camera and zoom.

import * as THREE from "./vendor/three.js";

const LONGEST_PULL = 1; // metres
const STIFFNESS = 40; // newtons for a metre and a kilogram
const DEGREES = 0.4; // for a point of the page
const ZOOM = 0.001; // for a point of the wheel

export class Pointer {
  constructor(view) {
    this.view = view;
    this.canvas = view.canvas;
    this.ray = new THREE.Raycaster();
    this.grab = null; // the pulled body: its number, the point on it, and where that is pulled to
    this.turn = null; // the camera and the pointer at the start of a turn
    const listen = (name, act, options) => this.canvas.addEventListener(name, act, options);
    listen("pointerdown", (event) => this.press(event));
    listen("pointermove", (event) => this.move(event));
    listen("pointerup", () => this.release());
    listen("pointercancel", () => this.release());
    listen("wheel", (event) => this.zoom(event), { passive: false });
    listen("touchstart", (event) => this.keepFromScrolling(event), { passive: false });
  }

  /** Point the ray at the position of an event. */
  aim({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const x = (2 * (clientX - box.left)) / box.width - 1;
    const y = 1 - (2 * (clientY - box.top)) / box.height;
    this.ray.setFromCamera(new THREE.Vector2(x, y), this.view.camera);
  }

  /** Where the ray hits a body that can be pulled. */
  hit(event) {
    if (!this.view.simulation) return undefined;
    this.aim(event);
    const hits = this.ray.intersectObjects(this.view.bodies, true);
    return hits.find(({ object }) => object.userData.body > 0);
  }

  keepFromScrolling(event) {
    if (this.hit(event.touches[0])) event.preventDefault();
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    const hit = event.button === 0 && this.hit(event);
    if (!hit) {
      const { azimuth, elevation } = this.view;
      this.turn = { x: event.clientX, y: event.clientY, azimuth, elevation };
      return;
    }
    const { body } = hit.object.userData;
    const facing = this.view.camera.getWorldDirection(new THREE.Vector3());
    this.grab = {
      body,
      local: this.view.bodies[body].worldToLocal(hit.point.clone()),
      plane: new THREE.Plane().setFromNormalAndCoplanarPoint(facing, hit.point),
      to: hit.point.clone(),
    };
    this.view.simulation.push = (simulation) => this.pull(simulation);
  }

  move(event) {
    if (this.turn) {
      const { x, y, azimuth, elevation } = this.turn;
      this.view.azimuth = azimuth - DEGREES * (event.clientX - x);
      this.view.elevation = Math.min(Math.max(elevation + DEGREES * (event.clientY - y), 2), 88);
    } else if (this.grab) {
      this.aim(event);
      this.ray.ray.intersectPlane(this.grab.plane, this.grab.to);
    } else {
      this.canvas.style.cursor = this.hit(event) ? "grab" : "move";
    }
  }

  release() {
    if (this.grab) this.view.simulation.push = null;
    this.grab = this.turn = null;
  }

  zoom(event) {
    if (!event.ctrlKey && document.activeElement !== this.canvas) return; // let the page scroll
    event.preventDefault();
    this.view.distance *= Math.exp(ZOOM * event.deltaY);
  }

  /** A spring between the grabbed point and the pointer, for a body of the simulation. */
  pull({ data, model }) {
    const { body, to } = this.grab;
    const from = this.grabbedPoint(data);
    const delta = to.clone().sub(from).clampLength(0, LONGEST_PULL);
    const force = delta.multiplyScalar(STIFFNESS * model.body_subtreemass[1]);
    const centre = new THREE.Vector3().fromArray(data.xipos, 3 * body);
    const torque = from.sub(centre).cross(force);
    data.xfrc_applied.set([...force.toArray(), ...torque.toArray()], 6 * body);
  }

  grabbedPoint(data) {
    const { body, local } = this.grab;
    const [w, x, y, z] = data.xquat.subarray(4 * body, 4 * body + 4);
    const turned = local.clone().applyQuaternion({ x, y, z, w });
    return turned.add(new THREE.Vector3().fromArray(data.xpos, 3 * body));
  }

  /** Draw the pull. */
  draw(arrow) {
    arrow.visible = Boolean(this.grab);
    if (!this.grab) return;
    const from = this.grabbedPoint(this.view.simulation.data);
    const delta = this.grab.to.clone().sub(from);
    const length = Math.max(delta.length(), 1e-3);
    arrow.position.copy(from);
    arrow.setDirection(delta.normalize());
    arrow.setLength(length, 0.06 * this.view.distance, 0.03 * this.view.distance);
  }
}
